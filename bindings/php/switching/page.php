<?php
// A request: php page.php ID DO [VALUE]. Prints the id that it ends with, and the session.

[, $id, $do] = $argv;
$value = $argv[3] ?? '';
ob_start();
$warnings = [];
set_error_handler(function ($level, $message) use (&$warnings) {
    return (bool) ($warnings[] = $message);
});
session_id($id);
if (!session_start()) {
    fwrite(STDOUT, json_encode(['failed' => implode("\n", $warnings)]) . "\n");
    exit(0);
}
switch ($do) {
case 'log-in':
    session_regenerate_id(true);
    $_SESSION['user'] = $value;
    break;
case 'add':
    $_SESSION['cart'][] = $value;
    break;
case 'count':
    $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
    break;
case 'hold':
    fwrite(STDOUT, "held\n");
    fgets(STDIN);
    $_SESSION['held'] = $value;
    break;
case 'log-out':
    $_SESSION = [];
    session_destroy();
    break;
}
$answer = ['id' => session_id(), 'session' => $_SESSION];
if (session_status() === PHP_SESSION_ACTIVE) {
    session_write_close();
}
fwrite(STDOUT, json_encode($answer) . "\n");
