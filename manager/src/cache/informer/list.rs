//! A list for the stores that exist at its start, page by page. The informer applies it as a whole.

use std::sync::Arc;

use tokio::time::Instant;

use crate::cache::shared_store::{AnyList, AnyStore};
use crate::cache::store::{Partition, Stale};
use crate::cache::wire::RawItem;
use crate::client::View;
use crate::object::Version;

/// A list that was started, and the stores that receive it.
pub(in crate::cache) struct ListStart {
    /// Counts the lists of the partition from 1.
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(in crate::cache) view: View,
    /// The maximum number of objects on a page.
    pub(in crate::cache) page: u32,
    pub(super) stores: Vec<Arc<dyn AnyStore>>,
}

/// A list of which the first page has arrived.
pub(in crate::cache) struct List {
    pub(super) stores: Vec<(Arc<dyn AnyStore>, Box<dyn AnyList>)>,
    /// The number of unidentified items, also of the page in progress.
    pub(super) unidentified: usize,
    /// The same of the complete pages.
    unidentified_before: usize,
    pub(in crate::cache) restored: bool,
}

impl ListStart {
    /// Accepts the first page of the list, with this version. `restored` if earlier versions are not comparable.
    pub(in crate::cache) fn accept(
        &self,
        partition: Partition,
        version: &Version,
        restored: bool,
    ) -> Result<List, Stale> {
        let accept = |store: &Arc<dyn AnyStore>| {
            let list = Arc::clone(store).begin_list(partition, version.clone(), restored)?;
            Ok((Arc::clone(store), list))
        };
        Ok(List {
            stores: self.stores.iter().map(accept).collect::<Result<_, _>>()?,
            unidentified: 0,
            unidentified_before: 0,
            restored,
        })
    }
}

impl List {
    /// Adds an item of the page in progress.
    pub(in crate::cache) fn add(&mut self, item: &RawItem<'_>) {
        self.unidentified += usize::from(item.identity.is_none());
        for (_, list) in &mut self.stores {
            list.add(item);
        }
    }

    /// Completes a page.
    pub(in crate::cache) fn end_page(&mut self) {
        self.unidentified_before = self.unidentified;
        for (_, list) in &mut self.stores {
            list.end_page();
        }
    }

    /// Removes the items of the page in progress, which did not arrive as a whole.
    pub(in crate::cache) fn drop_page(&mut self) {
        self.unidentified = self.unidentified_before;
        for (_, list) in &mut self.stores {
            list.drop_page();
        }
    }
}
