--TEST--
a handler in PHP that extends SessionHandler stands on this one
--FILE--
<?php
require __DIR__ . '/common.inc';
class Loud extends SessionHandler
{
    public function read(string $id): string|false
    {
        echo "read\n";
        return parent::read($id);
    }
}
session_set_save_handler(new Loud());
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
start($id);
$_SESSION['b'] = 2;
session_regenerate_id();
$new = session_id();
session_write_close();
start($new);
echo json_encode($_SESSION), "\n";
session_write_close();
start($id);
echo json_encode($_SESSION), "\n";
?>
--EXPECT--
read
read
read
read
{"a":1,"b":2}
read
{"a":1}
