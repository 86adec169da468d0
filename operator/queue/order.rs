//! First in, first out, within two priorities.

use std::collections::BTreeMap;

use super::Priority;

/// Keys by priority and number; a smaller number came earlier.
pub(super) struct Order<K> {
    normal: BTreeMap<u64, K>,
    low: BTreeMap<u64, K>,
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Self {
            normal: BTreeMap::new(),
            low: BTreeMap::new(),
        }
    }
}

impl<K> Order<K> {
    fn of(&mut self, priority: Priority) -> &mut BTreeMap<u64, K> {
        match priority {
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        }
    }

    pub(super) fn insert(&mut self, priority: Priority, number: u64, key: K) {
        self.of(priority).insert(number, key);
    }

    pub(super) fn remove(&mut self, priority: Priority, number: u64) {
        self.of(priority).remove(&number);
    }

    pub(super) fn pop(&mut self) -> Option<(Priority, K)> {
        let normal = self
            .normal
            .pop_first()
            .map(|(_, key)| (Priority::Normal, key));
        normal.or_else(|| self.low.pop_first().map(|(_, key)| (Priority::Low, key)))
    }

    pub(super) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
