//! The batches of a sweep. A batch is removed by statements that name its rows by primary key and
//! lock nothing else.

use std::time::Duration;

use sessile_core::{Budget, Key, Result, Swept, Timestamp};

use super::Mysql;
use super::connection::Connection;
use super::failure::Attempt;
use super::row::Row;
use super::statement::Message;
use crate::sql::row::Columns;
use crate::sql::sweep::{self, DueAction, DueRow, SweptBatch};
use crate::sql::value::{Value, key_values};

/// Rows of one transaction, which is what the commit of another session may have to wait for.
const BATCH_ROWS: u64 = 100;

pub(super) type Position = (i64, Key);

pub(super) fn sweep(store: &Mysql, budget: Budget) -> Result<Swept> {
    sweep::sweep(&store.swept_to, budget, BATCH_ROWS, |after, most| {
        store.pool.with(store.pool.deadline(Duration::ZERO), |connection| {
            let now = store.clock.now();
            let rows = select_due(store, connection, after, now, most)?;
            let examined = rows.len() as u64;
            let mut due = Vec::with_capacity(rows.len());
            for row in &rows {
                match DueRow::new(row) {
                    Ok(row) => due.push(row),
                    // One damaged row must not keep the others from being swept.
                    Err(error) => log::warn!("a sweep passes over a row: {error:#}"),
                }
            }
            let last = due.last().map(|row| (row.due, row.key.clone()));
            leave_out_leased(store, connection, &mut due)?;
            let removed = remove(store, connection, &due, now)?;
            Ok(SweptBatch { examined, removed, last })
        })
    })
}

fn select_due(
    store: &Mysql,
    connection: &mut Connection,
    after: Option<&Position>,
    now: Timestamp,
    most: u64,
) -> Attempt<Vec<Row>> {
    let (mut behind, mut values) = ("", vec![now.into()]);
    if let Some((due, key)) = after {
        behind = "AND due >= ? AND (due > ? OR bin > ? OR (bin = ? AND id > ?))";
        let (due, [bin, id]) = (Value::Number(*due), key_values(key));
        values.extend([due, due, bin, bin, id]);
    }
    values.push(most.into());
    let statement = format!(
        "SELECT due, bin, id, kind, expires FROM {} FORCE INDEX (due) WHERE due <= ? {behind} \
         ORDER BY due, bin, id LIMIT ?",
        store.statements().table
    );
    Ok(connection.run(&Message::of(&statement, &values))?.rows())
}

fn leave_out_leased(
    store: &Mysql,
    connection: &mut Connection,
    due: &mut Vec<DueRow>,
) -> Attempt<()> {
    if due.is_empty() {
        return Ok(());
    }
    let locks: Vec<String> = due.iter().map(|row| store.locks.name(&row.key)).collect();
    let values: Vec<Value<'_>> = locks.iter().map(|lock| Value::Word(lock)).collect();
    let each = vec!["IS_USED_LOCK(?) IS NULL"; locks.len()].join(", ");
    let free = connection.row(&format!("SELECT {each}"), &values)?;
    let is_free = |column| free.as_ref()?.integer(column).ok()?;
    let mut columns = 0..;
    due.retain(|_| columns.next().and_then(is_free) == Some(1));
    Ok(())
}

/// Returns the number of records removed.
fn remove(
    store: &Mysql,
    connection: &mut Connection,
    rows: &[DueRow],
    now: Timestamp,
) -> Attempt<u64> {
    let (table, mut message) = (&store.statements().table, Message::default());
    for action in [DueAction::RemoveRecord, DueAction::Remove, DueAction::Refile] {
        let keys = rows.iter().filter(|row| row.action(now) == action).map(|row| &row.key);
        let mut values: Vec<Value<'_>> = keys.flat_map(key_values).collect();
        if values.is_empty() {
            continue;
        }
        let places = vec!["bin = ? AND id = ?"; values.len() / 2].join(" OR ");
        let (change, still) = match action {
            DueAction::RemoveRecord => ("DELETE FROM", "kind = 0 AND expires <= ?"),
            DueAction::Remove => ("DELETE FROM", "kind <> 0 AND due <= ?"),
            DueAction::Refile => ("UPDATE", "kind = 0 AND expires > ?"),
        };
        let set = if action == DueAction::Refile { "SET due = expires" } else { "" };
        values.extend([Value::from(now); 2]);
        let statement = format!("{change} {table} {set} WHERE ({places}) AND due <= ? AND {still}");
        message.add(&statement, &values);
    }
    if rows.is_empty() {
        return Ok(0);
    }
    let removes = rows.iter().any(|row| row.action(now) == DueAction::RemoveRecord);
    // Its statement is the first one.
    connection.run(&message).map(|mut results| if removes { results.changed() } else { 0 })
}
