//! Bins that live in a store of their own.

use sessile_core::{Bin, Filter, Key};

use crate::setup::{Pair, SMALL, WAIT, hour, key, large, open, payload_of};

#[test]
fn a_bin_lives_in_its_store_and_everything_else_at_home() {
    let pair = Pair::new();
    let bins = format!("files:{}/bins", pair.dir.path().display());
    let store = open(&format!("{}&bins=cache,theme&bins_in={bins}", pair.url()));
    let (home, other) = (pair.home(), open(&bins));
    let cache = Key::in_bin(Bin::new("cache").unwrap(), "theme:registry").unwrap();
    home.create(&cache, b"left behind", hour()).unwrap();
    assert_eq!(store.peek(&cache).unwrap(), None, "from before the bin was routed");
    store.begin(&cache, WAIT).unwrap().lease.commit(&large(1), hour()).unwrap();
    store.create(&key("a"), SMALL, hour()).unwrap();
    assert_eq!(other.peek(&cache).unwrap().unwrap().payload, large(1), "as it is, without a stub");
    assert_eq!((payload_of(&home, "a").as_deref(), payload_of(&other, "a")), (Some(SMALL), None));
    assert_eq!(pair.parts(), []);
    let listed = |filter: &Filter| {
        let (mut keys, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.list(cursor.as_ref(), filter).unwrap();
            keys.extend(page.entries.into_iter().map(|entry| (entry.key, entry.payload_bytes)));
            cursor = page.next;
            if cursor.is_none() {
                return keys;
            }
        }
    };
    let size = large(1).len() as u64;
    assert_eq!(listed(&Filter::default()), [(key("a"), 5), (cache.clone(), size)]);
    assert_eq!(
        listed(&Filter { bin: Some(cache.bin().clone()), ..Filter::default() }),
        [(cache.clone(), size)]
    );
    store.touch(&cache, hour()).unwrap();
    store.destroy(&cache).unwrap();
    assert_eq!(other.peek(&cache).unwrap(), None);
    assert!(home.peek(&cache).unwrap().is_some(), "what was left behind is not touched");
}
