--TEST--
what a script leaves open is saved when it ends: by exit, in a shutdown function, after an exception, in a destructor
--FILE--
<?php
require __DIR__ . '/common.inc';
$ends = [
    'exit' => 'start($argv[1]); $_SESSION["a"] = 1; exit(3);',
    'exit in a function' => 'function f($id) { start($id); $_SESSION["a"] = 2; exit; } f($argv[1]);',
    'shutdown function' => 'start($argv[1]); register_shutdown_function(function () { $_SESSION["a"] = 3; }); exit;',
    'closed there' => 'start($argv[1]); register_shutdown_function(function () { $_SESSION["a"] = 4; session_write_close(); });',
    'opened there' => 'register_shutdown_function(function () { start($GLOBALS["argv"][1]); $_SESSION["a"] = 5; });',
    'exception' => 'ini_set("display_errors", "0"); ini_set("log_errors", "0"); start($argv[1]); $_SESSION["a"] = 6; throw new Exception();',
    'destructor' => 'class D { function __destruct() { $_SESSION["a"] = 7; } } $d = new D; start($argv[1]);',
    'fatal error' => 'ini_set("display_errors", "0"); ini_set("log_errors", "0"); start($argv[1]); $_SESSION["a"] = 8; none();',
];
ini_set('sessile.lock_wait', '0.1');
foreach ($ends as $name => $code) {
    $id = fresh_id();
    echo $name, ': ', finish(child($code, $id)), json_encode(stored($id)['a'] ?? null), ' ', json_encode(start($id)), "\n";
    session_abort();
}
?>
--EXPECT--
exit: 1 true
exit in a function: 2 true
shutdown function: 3 true
closed there: 4 true
opened there: 5 true
exception: 6 true
destructor: 7 true
fatal error: 8 true
