--TEST--
a new session that ends empty is not stored, unless sessile.lazy_start is off; one that becomes empty is
--INI--
session.use_strict_mode=1
--FILE--
<?php
require __DIR__ . '/common.inc';
function known(string $id): bool
{
    start($id);
    $known = session_id() === $id;
    session_abort();
    return $known;
}
foreach (['1', '0'] as $lazy) {
    foreach ([['1', 'php'], ['0', 'php'], ['0', 'php_serialize']] as [$lazy_write, $serialiser]) {
        ini_set('sessile.lazy_start', $lazy);
        ini_set('session.lazy_write', $lazy_write);
        ini_set('session.serialize_handler', $serialiser);
        session_id('');
        session_start();
        $id = session_id();
        session_write_close();
        var_dump(known($id));
    }
}
ini_restore('sessile.lazy_start');
session_id('');
session_start();
$id = session_id();
$_SESSION['a'] = 1;
session_write_close();
start($id);
unset($_SESSION['a']);
session_write_close();
var_dump(known($id));
?>
--EXPECT--
bool(false)
bool(false)
bool(false)
bool(true)
bool(true)
bool(true)
bool(true)
