--TEST--
a session that did not change is kept alive, and one that nobody uses ends
--INI--
session.gc_maxlifetime=4
session.lazy_write=1
--FILE--
<?php
require __DIR__ . '/common.inc';
[$used, $read, $unused] = [fresh_id(), fresh_id(), fresh_id()];
foreach ([$used, $read, $unused] as $id) {
    start($id);
    $_SESSION['a'] = 'b';
    session_write_close();
}
for ($i = 0; $i < 3; $i++) {
    usleep(1500000);
    start($used);
    session_write_close();
    stored($read);
}
var_dump(stored($used), stored($read), stored($unused));
?>
--EXPECT--
array(1) {
  ["a"]=>
  string(1) "b"
}
array(1) {
  ["a"]=>
  string(1) "b"
}
array(0) {
}
