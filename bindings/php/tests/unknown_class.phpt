--TEST--
an object whose class the request does not have is kept as it is, whether the session changes or not
--FILE--
<?php
require __DIR__ . '/common.inc';
$class = 'class Item { public $name = "pen"; protected $price = 2; private $owner; function __construct() { $this->owner = [$this->price]; } }';
$id = fresh_id();
finish(child("$class start(\$argv[1]); \$_SESSION['item'] = new Item;", $id));
start($id);
var_dump(get_class($_SESSION['item']));
session_write_close();
start($id);
$_SESSION['seen'] = 1;
session_write_close();
echo finish(child("$class start(\$argv[1], ['read_and_close' => true]); var_dump(\$_SESSION);", $id)), "\n";
?>
--EXPECT--
string(22) "__PHP_Incomplete_Class"
array(2) {
  ["item"]=>
  object(Item)#1 (3) {
    ["name"]=>
    string(3) "pen"
    ["price":protected]=>
    int(2)
    ["owner":"Item":private]=>
    array(1) {
      [0]=>
      int(2)
    }
  }
  ["seen"]=>
  int(1)
}
