--TEST--
every serialiser, nested objects, binary strings, integer keys
--FILE--
<?php
require __DIR__ . '/common.inc';
class Item
{
    public function __construct(public string $name, public ?Item $next = null)
    {
    }
}
foreach (['php', 'php_serialize', 'php_binary'] as $handler) {
    ini_set('session.serialize_handler', $handler);
    $id = fresh_id();
    start($id);
    $_SESSION['item'] = new Item("\0\xff|;", new Item('inner'));
    $_SESSION['deep'] = [[[['x' => [1.5, null, true]]]]];
    $_SESSION['self'] = &$_SESSION['deep'];
    $expected = serialize($_SESSION);
    session_write_close();
    start($id);
    var_dump(serialize($_SESSION) === $expected, $_SESSION['item']->next->name);
    session_write_close();
}
?>
--EXPECT--
bool(true)
string(5) "inner"
bool(true)
string(5) "inner"
bool(true)
string(5) "inner"
