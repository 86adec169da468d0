use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::operator::cache::{Change, Name, Store};

fn store() -> Store<u32> {
    Store::default()
}

fn put(store: &Store<u32>, name: &str, version: &str, value: u32) -> Option<Change<u32>> {
    store.apply(Name::new("ns", name), version.to_owned(), value)
}

fn names(store: &Store<u32>) -> Vec<u32> {
    store.all().iter().map(|value| **value).collect()
}

#[test]
fn the_same_version_changes_nothing() {
    let store = store();
    assert!(matches!(put(&store, "a", "1", 1), Some(Change::Added(_))));
    assert!(put(&store, "a", "1", 1).is_none());
}

#[test]
fn an_update_knows_what_was_before() {
    let store = store();
    put(&store, "a", "1", 1);
    let change = put(&store, "a", "2", 2).unwrap();
    assert_eq!(change.update(), Some((&1, &2)));
}

#[test]
fn an_object_that_a_list_does_not_name_is_gone_when_it_ends() {
    let store = store();
    store.begin_list();
    put(&store, "a", "1", 1);
    put(&store, "b", "1", 2);
    assert!(store.end_list().is_empty());
    store.begin_list();
    put(&store, "b", "1", 2);
    assert_eq!(
        names(&store),
        [1, 2],
        "nothing is gone before the list ends"
    );
    let gone = store.end_list();
    assert!(matches!(gone.as_slice(), [Change::Deleted(last)] if **last == 1));
    assert_eq!(names(&store), [2]);
}

#[test]
fn a_list_that_begins_anew_forgets_the_broken_one() {
    let store = store();
    store.begin_list();
    put(&store, "a", "1", 1);
    store.begin_list();
    put(&store, "b", "1", 2);
    let gone = store.end_list();
    assert!(matches!(gone.as_slice(), [Change::Deleted(last)] if **last == 1));
}

#[test]
fn an_object_that_does_not_decode_stays_as_it_was() {
    let store = store();
    store.begin_list();
    put(&store, "a", "1", 1);
    store.end_list();
    store.begin_list();
    store.keep(&Name::new("ns", "a"));
    assert!(store.end_list().is_empty());
    assert_eq!(names(&store), [1]);
}

#[test]
fn a_deletion_carries_the_last_state() {
    let store = store();
    put(&store, "a", "1", 1);
    let change = store.delete(&Name::new("ns", "a"), Some(9)).unwrap();
    assert!(change.is_deletion());
    assert_eq!(**change.latest(), 9);
    assert!(store.delete(&Name::new("ns", "a"), None).is_none());
    assert!(store.is_empty());
}

#[test]
fn objects_come_in_the_order_of_their_names() {
    let store = store();
    for (name, value) in [("c", 3), ("a", 1), ("b", 2)] {
        put(&store, name, "1", value);
    }
    assert_eq!(names(&store), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_store_is_synced_after_its_first_list() {
    let store = Arc::new(store());
    store.begin_list();
    assert!(
        timeout(Duration::from_secs(60), store.synced())
            .await
            .is_err()
    );
    store.end_list();
    store.synced().await;
    store.begin_list();
    store.synced().await;
}
