--TEST--
a session that is not stored yet can be given another id, also twice, and aborted after it
--FILE--
<?php
require __DIR__ . '/common.inc';
session_start();
$first = session_id();
var_dump(session_regenerate_id(), session_regenerate_id());
$last = session_id();
$_SESSION['a'] = 1;
session_write_close();
echo json_encode([stored($first), stored($last)]), "\n";
start($last);
session_regenerate_id();
$new = session_id();
session_abort();
echo json_encode([stored($last), stored($new)]), "\n";
// The lock is nobody's.
ini_set('sessile.lock_wait', '0.1');
var_dump(start($new), session_write_close());
?>
--EXPECT--
bool(true)
bool(true)
[[],{"a":1}]
[{"a":1},{"a":1}]
bool(true)
bool(true)
