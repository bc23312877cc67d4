--TEST--
a session that cannot be serialised is not saved and counted, and what was stored before stays
--FILE--
<?php
require __DIR__ . '/common.inc';
class Thrower
{
    public function __serialize(): array
    {
        throw new Exception('no');
    }
}
foreach (['php', 'php_serialize'] as $serialiser) {
    ini_set('session.serialize_handler', $serialiser);
    foreach (['a closure' => fn () => 1, 'an object that throws' => new Thrower()] as $what => $value) {
        $id = fresh_id();
        start($id);
        $_SESSION['a'] = 1;
        session_write_close();
        start($id);
        $_SESSION['b'] = $value;
        $failed = sessile_counters()['failed_saves'];
        try {
            session_write_close();
        } catch (Exception $e) {
            echo "$what: ", get_class($e), ' ', json_encode(stored($id)), ' ',
                sessile_counters()['failed_saves'] - $failed, "\n";
        }
    }
}
ini_set('session.serialize_handler', 'php');
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
start($id);
$_SESSION['a|b'] = 2;
session_write_close();
echo json_encode(stored($id)), "\n";
// Without names there is nothing to save, as PHP says itself.
start($id);
$_SESSION = [7];
@session_write_close();
echo json_encode(stored($id)), "\n";
?>
--EXPECTF--
a closure: Exception {"a":1} 1
an object that throws: Exception {"a":1} 1
a closure: Exception {"a":1} 1
an object that throws: Exception {"a":1} 1

Warning: session_write_close(): %r(Failed to write session data. Data contains invalid key|.*: cannot commit session #\w+: the session cannot be serialised)%r%A
{"a":1}
[]
