//! Doubly linked lists whose nodes share one vector: push and removal take constant time, and a node costs no allocation
//! of its own.

/// The nodes of any number of lists.
#[derive(Debug)]
pub(super) struct Nodes<T> {
    nodes: Vec<Node<T>>,
    /// Indexes of the nodes that are in no list.
    free: Vec<usize>,
}

#[derive(Debug)]
struct Node<T> {
    /// None while the node is free.
    value: Option<T>,
    previous: Option<usize>,
    next: Option<usize>,
}

/// The ends of one list; both are none if it is empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    first: Option<usize>,
    last: Option<usize>,
}

impl List {
    pub(super) fn first(self) -> Option<usize> {
        self.first
    }
}

impl<T> Nodes<T> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The number of nodes in all lists.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(super) fn get(&self, node: usize) -> Option<&T> {
        self.nodes[node].value.as_ref()
    }

    pub(super) fn get_mut(&mut self, node: usize) -> Option<&mut T> {
        self.nodes[node].value.as_mut()
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

    /// Frees a node of `list`.
    pub(super) fn remove(&mut self, list: &mut List, node: usize) -> Option<T> {
        self.unlink(list, node);
        self.free.push(node);
        self.nodes[node].value.take()
    }

    /// Moves a node of `list` to its end.
    pub(super) fn move_to_end(&mut self, list: &mut List, node: usize) {
        if list.last != Some(node) {
            self.unlink(list, node);
            self.link(list, node);
        }
    }

    fn link(&mut self, list: &mut List, node: usize) {
        self.nodes[node].previous = list.last;
        self.nodes[node].next = None;
        match list.last {
            Some(last) => self.nodes[last].next = Some(node),
            None => list.first = Some(node),
        }
        list.last = Some(node);
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
    }
}
