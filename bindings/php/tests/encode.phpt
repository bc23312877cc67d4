--TEST--
session_decode() puts into the open session what session_encode() has made, and it is saved; what it cannot read ends that session
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach (['php', 'php_serialize', 'php_binary'] as $serialiser) {
    ini_set('session.serialize_handler', $serialiser);
    [$from, $to] = [fresh_id(), fresh_id()];
    start($from);
    $_SESSION = ['a' => [1, "\0"], 'b' => null];
    $text = session_encode();
    session_write_close();
    start($to);
    var_dump(session_decode($text));
    session_write_close();
    echo json_encode([stored($from), stored($to)]), "\n";
    start($to);
    var_dump(@session_decode("a|O:9:\"\xff"), session_status() === PHP_SESSION_ACTIVE);
    echo json_encode([stored($from), stored($to)]), "\n";
}
?>
--EXPECT--
bool(true)
[{"a":[1,"\u0000"],"b":null},{"a":[1,"\u0000"],"b":null}]
bool(false)
bool(false)
[{"a":[1,"\u0000"],"b":null},[]]
bool(true)
[{"a":[1,"\u0000"],"b":null},{"a":[1,"\u0000"],"b":null}]
bool(false)
bool(false)
[{"a":[1,"\u0000"],"b":null},[]]
bool(true)
[{"a":[1,"\u0000"],"b":null},{"a":[1,"\u0000"],"b":null}]
bool(false)
bool(false)
[{"a":[1,"\u0000"],"b":null},[]]
