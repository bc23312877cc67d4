--TEST--
strict mode gives a visitor whose session has expired another id, and nothing of the session
--INI--
session.use_strict_mode=1
session.gc_maxlifetime=3
--FILE--
<?php
require __DIR__ . '/common.inc';
start(fresh_id());
$id = session_id();
$_SESSION['a'] = 1;
session_write_close();
start($id);
var_dump(session_id() === $id, $_SESSION);
session_write_close();
usleep(3200000);
foreach ([[], ['read_and_close' => true]] as $options) {
    start($id, $options);
    var_dump(session_id() === $id, $_SESSION);
    session_abort();
}
?>
--EXPECT--
bool(true)
array(1) {
  ["a"]=>
  int(1)
}
bool(false)
array(0) {
}
bool(false)
array(0) {
}
