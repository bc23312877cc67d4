--TEST--
strict mode takes ids that are stored and replaces those that are not, and locks only once
--INI--
session.use_strict_mode=1
--FILE--
<?php
require __DIR__ . '/common.inc';
start(fresh_id());
$id = session_id();
$_SESSION['a'] = 1;
session_write_close();
start($id);
var_dump(session_id() === $id, $_SESSION['a']);
session_write_close();
$unknown = fresh_id();
start($unknown);
var_dump(session_id() === $unknown, strlen(session_id()) > 20);
session_write_close();
// Taken by someone else: it waits, and does not take another id instead.
$holder = holder($id);
ini_set('sessile.lock_wait', '0.1');
var_dump(@start($id));
finish($holder);
var_dump(start($id), session_id() === $id, $_SESSION['by']);
?>
--EXPECT--
bool(true)
int(1)
bool(false)
bool(true)
bool(false)
bool(true)
bool(true)
string(6) "holder"
