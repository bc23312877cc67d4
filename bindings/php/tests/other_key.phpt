--TEST--
a handler in PHP that writes under another id than it read: there it is stored, unless somebody is there, and no lock stays
--FILE--
<?php
require __DIR__ . '/common.inc';
class Elsewhere extends SessionHandler
{
    public static string $target = '';

    public function write(string $id, string $data): bool
    {
        return parent::write(self::$target ?: $id, $data);
    }
}
function saved_by_child(string $id): string
{
    $code = 'ini_set("sessile.lock_wait", "0.1"); var_dump(start($argv[1]) && $_SESSION["seen"] = 1); session_abort();';
    return finish(child($code, $id));
}
session_set_save_handler(new Elsewhere());
[$read, $written] = [fresh_id(), fresh_id()];
start($read);
$_SESSION['a'] = 1;
session_write_close();

Elsewhere::$target = $written;
start($read);
$_SESSION['a'] = 2;
var_dump(session_write_close());
echo saved_by_child($read), ' ', saved_by_child($written), "\n";
Elsewhere::$target = '';
echo json_encode([stored($read), stored($written)]), "\n";

// Once more: now there is a session of somebody else.
Elsewhere::$target = $written;
start($read);
$_SESSION['a'] = 3;
session_write_close();
echo saved_by_child($read), ' ', saved_by_child($written), "\n";
echo json_encode([stored($read), stored($written)]), "\n";
?>
--EXPECTF--
bool(true)
bool(true) bool(true)
[{"a":1},{"a":2}]

Warning: SessionHandler::write(): %s: cannot commit session #%x: another request has stored a session under this id; nothing is saved in %s on line %d

Warning: session_write_close(): Failed to write session data using user defined save handler.%s in %s on line %d
bool(true) bool(true)
[{"a":1},{"a":2}]
