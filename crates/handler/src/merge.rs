//! The three-way merge of a session that several requests have changed at a time.

use indexmap::IndexMap;

/// A value of a session. What is inside a leaf is not merged.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a, L> {
    /// A scalar, a list or an object.
    Leaf(L),
    /// Values by name, in an order.
    Map(Map<'a, L>),
}

pub(crate) type Map<'a, L> = IndexMap<&'a [u8], Value<'a, L>>;

pub(crate) type Path<'a> = Vec<&'a [u8]>;

impl<L: PartialEq> PartialEq for Value<'_, L> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Leaf(this), Value::Leaf(other)) => this == other,
            // As slices, because another order is a change.
            (Value::Map(this), Value::Map(other)) => this.as_slice() == other.as_slice(),
            _ => false,
        }
    }
}

/// Whether the removals of this request win over changes of others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removals {
    Lose,
    /// And a map of which nothing is left has nothing of others. A log-out or a log-in that gives
    /// the session a new id clears it first.
    Win,
}

/// Applies the changes from `base` to `mine` to `theirs`, and names the leaves in conflict: those
/// that both have changed. `mine` wins there.
///
/// Two requests that count from 1 to 2 have counted one visit, so the same change is a conflict,
/// too.
pub(crate) fn merge<'a, L: Clone + PartialEq>(
    base: &Map<'a, L>,
    mine: &Map<'a, L>,
    theirs: &Map<'a, L>,
    removals: Removals,
) -> (Map<'a, L>, Vec<Path<'a>>) {
    let mut merge = Merge { path: Vec::new(), conflicts: Vec::new(), removals };
    let merged = merge.maps(base, mine, theirs);
    (merged, merge.conflicts)
}

struct Merge<'a> {
    path: Path<'a>,
    conflicts: Vec<Path<'a>>,
    removals: Removals,
}

impl<'a> Merge<'a> {
    fn maps<L: Clone + PartialEq>(
        &mut self,
        base: &Map<'a, L>,
        mine: &Map<'a, L>,
        theirs: &Map<'a, L>,
    ) -> Map<'a, L> {
        let cleared = || !base.is_empty() && !base.keys().any(|name| mine.contains_key(name));
        if self.removals == Removals::Win && cleared() {
            return mine.clone();
        }
        // Of the two orders the changed one.
        let (first, second) =
            if theirs.keys().eq(base.keys()) { (mine, theirs) } else { (theirs, mine) };
        let more = second.keys().filter(|name| !first.contains_key(**name));
        let mut merged = Map::with_capacity(first.len());
        for name in first.keys().chain(more) {
            self.path.push(name);
            if let Some(value) = self.values(base.get(name), mine.get(name), theirs.get(name)) {
                merged.insert(*name, value);
            }
            self.path.pop();
        }
        merged
    }

    fn values<L: Clone + PartialEq>(
        &mut self,
        base: Option<&Value<'a, L>>,
        mine: Option<&Value<'a, L>>,
        theirs: Option<&Value<'a, L>>,
    ) -> Option<Value<'a, L>> {
        if theirs == base {
            return mine.cloned();
        }
        if mine == base {
            return theirs.cloned();
        }
        if mine.is_none() && (theirs.is_none() || self.removals == Removals::Win) {
            return None;
        }
        if [base, mine, theirs].iter().any(|value| matches!(value, Some(Value::Leaf(_)))) {
            self.conflicts.push(self.path.clone());
            return mine.or(theirs).cloned();
        }
        // Maps, or one that was removed.
        let none = Map::new();
        let [base_map, mine_map, theirs_map] = [base, mine, theirs].map(|value| match value {
            Some(Value::Map(map)) => map,
            _ => &none,
        });
        let merged = self.maps(base_map, mine_map, theirs_map);
        let kept = mine.is_some() && theirs.is_some();
        (kept || !merged.is_empty()).then_some(Value::Map(merged))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Leaves = BTreeMap<Vec<u8>, u8>;

    const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

    /// Leaves by path. Each path has two names, so that no leaf becomes a map.
    fn tree(leaves: &Leaves) -> Map<'static, u8> {
        let mut map = Map::new();
        for (path, leaf) in leaves {
            let name = |at: usize| NAMES[usize::from(path[at])];
            let inner = map.entry(name(0)).or_insert_with(|| Value::Map(Map::new()));
            let Value::Map(inner) = inner else { unreachable!("as above") };
            inner.insert(name(1), Value::Leaf(*leaf));
        }
        map
    }

    fn leaves(map: &Map<'_, u8>) -> Leaves {
        let number = |name: &&[u8]| NAMES.iter().position(|known| known == name).unwrap() as u8;
        let mut leaves = Leaves::new();
        for (first, inner) in map {
            let Value::Map(inner) = inner else { panic!("a leaf at the top") };
            for (second, leaf) in inner {
                let Value::Leaf(leaf) = leaf else { panic!("a map below") };
                leaves.insert(vec![number(first), number(second)], *leaf);
            }
        }
        leaves
    }

    fn change(random: &mut fastrand::Rng, leaves: &mut Leaves) {
        for _ in 0..random.usize(..6) {
            let path = vec![random.u8(..4), random.u8(..4)];
            match random.u8(..3) {
                0 => drop(leaves.remove(&path)),
                _ => drop(leaves.insert(path, random.u8(..4))),
            }
        }
    }

    /// A leaf that one request alone has changed is what that request has made of it.
    #[test]
    fn no_change_of_one_request_is_lost() {
        let seed =
            std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |it| it.parse().unwrap());
        println!("SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let mut base = Leaves::new();
            change(&mut random, &mut base);
            change(&mut random, &mut base);
            let (mut mine, mut theirs) = (base.clone(), base.clone());
            change(&mut random, &mut mine);
            change(&mut random, &mut theirs);
            let (mut expected, mut conflicts) = (Leaves::new(), 0);
            for path in (0..16).map(|number| vec![number / 4, number % 4]) {
                let of = |leaves: &Leaves| leaves.get(&path).copied();
                let (base, mine, theirs) = (of(&base), of(&mine), of(&theirs));
                let (by_me, by_them) = (mine != base, theirs != base);
                conflicts += usize::from(by_me && by_them && mine.or(theirs).is_some());
                let leaf = match (by_me, by_them) {
                    (true, true) => mine.or(theirs),
                    (true, false) => mine,
                    _ => theirs,
                };
                leaf.map(|leaf| expected.insert(path, leaf));
            }
            let (merged, paths) = merge(&tree(&base), &tree(&mine), &tree(&theirs), Removals::Lose);
            assert_eq!(leaves(&merged), expected, "{base:?} {mine:?} {theirs:?}");
            assert_eq!(paths.len(), conflicts, "{base:?} {mine:?} {theirs:?}");
        }
    }

    fn map(text: &[(&'static [u8], Value<'static, u8>)]) -> Map<'static, u8> {
        text.iter().cloned().collect()
    }

    #[test]
    fn of_a_leaf_and_a_map_the_last_one_stays() {
        let inner = Value::Map(map(&[(b"x", Value::Leaf(1))]));
        let (base, mine, theirs) =
            (map(&[]), map(&[(b"a", Value::Leaf(2))]), map(&[(b"a", inner.clone())]));
        let (merged, conflicts) = merge(&base, &mine, &theirs, Removals::Lose);
        assert_eq!(Value::Map(merged), Value::Map(mine.clone()));
        assert_eq!(conflicts, [[&b"a"[..]]]);
        let (merged, _) = merge(&base, &theirs, &mine, Removals::Lose);
        assert_eq!(Value::Map(merged), Value::Map(theirs));
    }

    /// Sorting a list of names changes no leaf, and is a change all the same.
    #[test]
    fn a_changed_order_stays() {
        let of = |names: &[&'static [u8]]| {
            names.iter().map(|name| (*name, Value::Leaf(1))).collect::<Map<'_, u8>>()
        };
        let (base, sorted, more) = (of(&[b"b", b"a"]), of(&[b"a", b"b"]), of(&[b"b", b"a", b"c"]));
        let merged = |mine, theirs| Value::Map(merge(&base, mine, theirs, Removals::Lose).0);
        assert_eq!(merged(&sorted, &base), Value::Map(sorted.clone()));
        assert_eq!(merged(&base, &sorted), Value::Map(sorted.clone()));
        assert_eq!(merged(&more, &sorted), Value::Map(of(&[b"a", b"b", b"c"])));
    }

    /// A list has no names: of two that remove values of it the last one stays, also if what is
    /// left is no list any more.
    #[test]
    fn a_leaf_that_both_have_made_a_map_is_a_conflict() {
        let rest = |name: &'static [u8]| Value::Map(map(&[(name, Value::Leaf(1))]));
        let base = map(&[(b"a", Value::Leaf(0))]);
        let (mine, theirs) = (map(&[(b"a", rest(b"x"))]), map(&[(b"a", rest(b"y"))]));
        let (merged, conflicts) = merge(&base, &mine, &theirs, Removals::Lose);
        assert_eq!((Value::Map(merged), conflicts.len()), (Value::Map(mine), 1));
        let (merged, conflicts) = merge(&base, &map(&[]), &theirs, Removals::Lose);
        assert_eq!((Value::Map(merged), conflicts.len()), (Value::Map(theirs), 1));
    }

    /// Another request has changed the user while this one logs out.
    #[test]
    fn removals_win_if_they_are_told_to() {
        let user = |name| (&b"user"[..], Value::Leaf(name));
        let inside =
            |of: &[(&'static [u8], Value<'static, u8>)]| map(&[(b"in", Value::Map(map(of)))]);
        let lang = || (&b"lang"[..], Value::Leaf(1));
        let base = inside(&[user(1), lang()]);
        let theirs = inside(&[user(2), lang(), (b"cart", Value::Leaf(9))]);
        let win =
            |mine: Map<'static, u8>| Value::Map(merge(&base, &mine, &theirs, Removals::Win).0);
        let kept = inside(&[lang(), (b"cart", Value::Leaf(9))]);
        assert_eq!(win(inside(&[lang()])), Value::Map(kept), "one removed");
        assert_eq!(win(inside(&[])), Value::Map(inside(&[])), "an array cleared");
        assert_eq!(win(map(&[])), Value::Map(map(&[])), "all cleared");
        let bye = map(&[(b"bye", Value::Leaf(3))]);
        assert_eq!(win(bye.clone()), Value::Map(bye.clone()), "all cleared, and something new");
    }
}
