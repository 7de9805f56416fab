//! Doubly linked lists whose nodes share one vector: constant-time push and removal without allocation per node.

use std::ops::{Index, IndexMut};

/// The nodes of any number of lists. A free node must not be used.
#[derive(Debug)]
pub(super) struct Nodes<T> {
    nodes: Vec<Node<T>>,
    /// Indexes of free nodes.
    free: Vec<usize>,
}

#[derive(Debug)]
struct Node<T> {
    /// None while the node is free.
    value: Option<T>,
    previous: Option<usize>,
    next: Option<usize>,
}

/// The ends of one list.
#[derive(Debug, Default)]
pub(super) struct List {
    first: Option<usize>,
    last: Option<usize>,
    len: usize,
}

impl List {
    pub(super) fn first(&self) -> Option<usize> {
        self.first
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> Nodes<T> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns the number of nodes in all lists.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Returns the values of a list in order.
    pub(super) fn iter(&self, list: &List) -> impl Iterator<Item = &T> {
        let mut next = list.first;
        std::iter::from_fn(move || {
            let node = &self.nodes[next?];
            next = node.next;
            node.value.as_ref()
        })
    }

    /// Appends a value and returns its node.
    pub(super) fn push(&mut self, list: &mut List, value: T) -> usize {
        let node = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node {
                value: None,
                previous: None,
                next: None,
            });
            self.nodes.len() - 1
        });
        self.nodes[node].value = Some(value);
        self.link(list, node);
        node
    }

    /// Removes a node from `list`.
    pub(super) fn remove(&mut self, list: &mut List, node: usize) -> Option<T> {
        self.unlink(list, node);
        self.free.push(node);
        self.nodes[node].value.take()
    }

    /// Moves a node of `list` to its start.
    pub(super) fn move_to_start(&mut self, list: &mut List, node: usize) {
        if list.first != Some(node) {
            self.unlink(list, node);
            self.nodes[node].previous = None;
            self.nodes[node].next = list.first;
            match list.first {
                Some(after) => self.nodes[after].previous = Some(node),
                None => list.last = Some(node),
            }
            list.first = Some(node);
            list.len += 1;
        }
    }

    /// Moves a node of `list` to its end.
    pub(super) fn move_to_end(&mut self, list: &mut List, node: usize) {
        if list.last != Some(node) {
            self.unlink(list, node);
            self.link(list, node);
        }
    }

    /// Moves a node of `from` to the end of `to`.
    pub(super) fn move_between(&mut self, from: &mut List, to: &mut List, node: usize) {
        self.unlink(from, node);
        self.link(to, node);
    }

    fn link(&mut self, list: &mut List, node: usize) {
        self.nodes[node].previous = list.last;
        self.nodes[node].next = None;
        match list.last {
            Some(before) => self.nodes[before].next = Some(node),
            None => list.first = Some(node),
        }
        list.last = Some(node);
        list.len += 1;
    }

    fn unlink(&mut self, list: &mut List, node: usize) {
        let Node { previous, next, .. } = self.nodes[node];
        match previous {
            Some(previous) => self.nodes[previous].next = next,
            None => list.first = next,
        }
        match next {
            Some(next) => self.nodes[next].previous = previous,
            None => list.last = previous,
        }
        list.len -= 1;
    }
}

impl<T> Index<usize> for Nodes<T> {
    type Output = T;

    fn index(&self, node: usize) -> &T {
        self.nodes[node].value.as_ref().expect("a node in a list")
    }
}

impl<T> IndexMut<usize> for Nodes<T> {
    fn index_mut(&mut self, node: usize) -> &mut T {
        self.nodes[node].value.as_mut().expect("a node in a list")
    }
}
