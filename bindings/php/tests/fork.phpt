--TEST--
a forked child has sessions of its own and leaves its parent's lock alone
--SKIPIF--
<?php if (!function_exists('pcntl_fork')) die('skip pcntl is not there'); ?>
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
$pid = pcntl_fork();
if ($pid === 0) {
    session_abort();
    start(fresh_id());
    $_SESSION['child'] = 1;
    session_write_close();
    ini_set('sessile.lock_wait', '0.1');
    exit(@start($id) ? 1 : 0);
}
pcntl_waitpid($pid, $status);
$pid = pcntl_fork();
if ($pid === 0) {
    exit; // with the session open: no warning, and nothing saved
}
pcntl_waitpid($pid, $ended);
foreach ([false, true] as $deletes) {
    $pid = pcntl_fork();
    if ($pid === 0) {
        // A session of its own; the one of the parent stays where it is.
        session_regenerate_id($deletes);
        $own = session_id();
        $_SESSION['a'] = 3;
        session_write_close();
        exit($own !== $id && stored($own) === ['a' => 3] ? 0 : 1);
    }
    // Printed at the end: a child would print it, too.
    pcntl_waitpid($pid, $regenerated[]);
}
var_dump(...array_map('pcntl_wexitstatus', $regenerated));
var_dump(pcntl_wexitstatus($status), session_write_close(), stored($id));
?>
--EXPECT--
int(0)
int(0)
int(0)
bool(true)
array(1) {
  ["a"]=>
  int(1)
}
