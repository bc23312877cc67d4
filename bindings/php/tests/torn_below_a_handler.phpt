--TEST--
below a handler in PHP, too, a session that cannot be serialised is not saved
--FILE--
<?php
require __DIR__ . '/common.inc';
class Shop extends SessionHandler
{
}
session_set_save_handler(new Shop(), true);
$id = fresh_id();
start($id);
$_SESSION['user'] = 1;
session_write_close();
start($id);
$_SESSION['a|b'] = 2;
session_write_close();
echo json_encode(stored($id)), "\n";
// What the application has cleared is empty.
start($id);
$_SESSION = [];
session_write_close();
echo json_encode(stored($id)), "\n";
?>
--EXPECTF--
Warning: %r(session_write_close|SessionHandler::write)%r(): %r(Failed to write session data. Data contains invalid key|.*: cannot commit session #\w+: the session cannot be serialised)%r%A
{"user":1}
[]
