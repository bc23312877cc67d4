--TEST--
sessile.absolute_lifetime holds over a new id, and for a request that straddles the end
--INI--
sessile.absolute_lifetime=3
--FILE--
<?php
require __DIR__ . '/common.inc';
function begun(): string
{
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = 1;
    session_write_close();
    return $id;
}
function wait_until(float $moment): void
{
    usleep(max(0, (int) (($moment - microtime(true)) * 1e6)));
}
[$kept, $deleted, $straddling] = [begun(), begun(), begun()];
$made = microtime(true);
foreach ([[&$kept, false], [&$deleted, true]] as [&$id, $delete]) {
    start($id);
    session_regenerate_id($delete);
    $id = session_id();
    $_SESSION['b'] = 2;
    session_write_close();
    echo json_encode(stored($id)), "\n";
}
start($straddling);
$_SESSION['b'] = 2;
wait_until($made + 3.2);
var_dump(session_write_close());
echo json_encode([stored($kept), stored($deleted), stored($straddling)]), "\n";
?>
--EXPECT--
{"a":1,"b":2}
{"a":1,"b":2}
bool(true)
[[],[],[]]
