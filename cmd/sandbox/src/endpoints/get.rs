//! The get handler: GET of one object (`GetResource` in `handlers/get.go` of the API server).

use crate::endpoints::{Api, Body, Call, Reply};
use crate::status::{ApiError, Result};

impl Api {
    pub(crate) async fn get(&self, call: &Call) -> Result<Reply> {
        let found = match call.query.get("resourceVersion") {
            // Without a resourceVersion, a get is a quorum read that bypasses the watch cache.
            None => self.store.get(&call.res.collection, &call.key()),
            Some(version) => {
                let at_least = crate::endpoints::list::parse_version(version)?;
                let at = self.visible(call, at_least).await?;
                self.store
                    .get_at(&call.res.collection, &call.key(), at)
                    .map_err(crate::endpoints::list::expired)?
            }
        };
        let object = found.ok_or_else(|| ApiError::not_found(&call.res, call.name()))?;
        Ok(Reply {
            code: 200,
            body: Body::Stored(object),
            warnings: Vec::new(),
        })
    }
}
