--TEST--
a session is stored, read again, changed and destroyed
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
var_dump(start($id), $_SESSION);
$_SESSION['cart'] = ['book', 'pen'];
var_dump(session_write_close());
var_dump(start($id), $_SESSION);
$_SESSION['cart'][] = 'ink';
session_write_close();
start($id);
echo implode(' ', $_SESSION['cart']), "\n";
var_dump(session_destroy(), stored($id));
?>
--EXPECT--
bool(true)
array(0) {
}
bool(true)
bool(true)
array(1) {
  ["cart"]=>
  array(2) {
    [0]=>
    string(4) "book"
    [1]=>
    string(3) "pen"
  }
}
book pen ink
bool(true)
array(0) {
}
