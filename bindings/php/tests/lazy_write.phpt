--TEST--
a session that did not change is kept alive; one that is only read ends, unless sessile.touch_unlocked is on
--INI--
session.gc_maxlifetime=4
session.lazy_write=1
--FILE--
<?php
require __DIR__ . '/common.inc';
[$used, $read, $touched] = [fresh_id(), fresh_id(), fresh_id()];
foreach ([$used, $read, $touched] as $id) {
    start($id);
    $_SESSION['a'] = 'b';
    session_write_close();
}
for ($i = 0; $i < 3; $i++) {
    usleep(1500000);
    start($used);
    session_write_close();
    stored($read);
    ini_set('sessile.touch_unlocked', '1');
    stored($touched);
    ini_set('sessile.touch_unlocked', '0');
}
var_dump(stored($used), stored($touched), stored($read));
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
