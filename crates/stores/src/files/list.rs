//! `stat` and `list` of both modes. They take no lock, hold up nobody and remove nothing.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sessile_core::{
    Cursor, ErrorKind, Filter, Head, Key, Listed, Page, Result, Stat, follow_regenerated,
};

use super::mode::{FileRole, Mode};
use super::system::{mtime, size};
use super::walk::{Ahead, Walk, walk_in_order};

/// `stat` stops here and says that it is not complete.
const STAT_TIME_MAX: Duration = Duration::from_secs(10);

pub fn stat(mode: &impl Mode) -> Result<Stat> {
    let (start, now) = (Instant::now(), mode.now());
    let (mut stat, mut walk) = (Stat::default(), Walk::new(mode, "")?);
    while start.elapsed() < STAT_TIME_MAX {
        let Some(found) = walk.next(mode)? else {
            stat.complete = true;
            break;
        };
        if let FileRole::Session(key) = &found.role
            && let Some((head, bytes)) = head(mode, key)
        {
            stat.count(&head, bytes, now);
        }
    }
    Ok(stat)
}

pub fn list(
    mode: &impl Mode,
    ahead: &Ahead,
    cursor: Option<&Cursor>,
    filter: &Filter,
) -> Result<Page> {
    let now = mode.now();
    let after = cursor.map(|cursor| cursor.parse(|path| parse(mode, path))).transpose()?;
    let (mut page, mut looked_at) = (Page::default(), 0);
    let only = filter.bin.as_ref();
    walk_in_order(mode, ahead, "", after.unwrap_or_default(), only, &mut |path, key| {
        looked_at += 1;
        // The bin first: no file of another bin is read.
        if filter.matches(key, u64::MAX, filter.owner)
            && let Some((key, head, payload_bytes)) = find(mode, key, filter)?
            && !head.expired(now)
            && filter.matches(&key, payload_bytes, head.owner)
        {
            page.entries.push(Listed { key, payload_bytes, head });
        }
        let full = looked_at == filter.entries_max;
        page.next = full.then(|| Cursor(path.to_owned()));
        Ok(!full)
    })?;
    Ok(page)
}

/// The head of a record, and its size. Of one that cannot be read what its file tells: whoever
/// reads the session learns why.
fn head(mode: &impl Mode, key: &Key) -> Option<(Head, u64)> {
    mode.read_head(key).unwrap_or_else(|_| {
        let stat = mode.file(key).ok()?.stat().ok()??;
        let (written, expires) = (mtime(&stat), mode.expiry(&stat));
        let head = Head { version: 0, created: written, written, expires, ends: None, owner: None };
        (size(&stat) > 0).then_some((head, size(&stat)))
    })
}

/// The record under a key. In a listing of an owner a regenerated id leads to its session, and a
/// file that cannot be read now may be a session of the owner: only damaged ones are passed over.
fn find(mode: &impl Mode, key: &Key, filter: &Filter) -> Result<Option<(Key, Head, u64)>> {
    if filter.owner.is_none() {
        return Ok(head(mode, key).map(|(head, bytes)| (key.clone(), head, bytes)));
    }
    let look = |key: &Key| -> Result<_> {
        Ok(match mode.read_head(key)? {
            Some((head, bytes)) => Some(ControlFlow::Break(Ok((key.clone(), head, bytes)))),
            None => mode.regenerated_to(key)?.map(ControlFlow::Continue),
        })
    };
    let found = follow_regenerated(key.clone(), |key| match look(key) {
        Err(error) if *error.kind() == ErrorKind::Corrupt => None,
        Err(error) => Some(ControlFlow::Break(Err(error))),
        Ok(step) => step,
    });
    found.transpose()
}

/// A path, if it is that of a session's file.
fn parse<'c>(mode: &impl Mode, path: &'c str) -> Option<&'c str> {
    let (folder, name) = path.split_at_checked(path.rfind('/').map_or(0, |slash| slash + 1))?;
    matches!(mode.role(folder, name), FileRole::Session(_)).then_some(path)
}
