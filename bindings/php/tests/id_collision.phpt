--TEST--
an id that is taken is drawn again, and three in a row end the request
--SKIPIF--
<?php if (!shell_exec('command -v cc')) die('skip there is no C compiler'); ?>
--FILE--
<?php
require __DIR__ . '/common.inc';
$library = sys_get_temp_dir() . '/sessile-random-' . getmypid() . '.so';
$preloaded = getenv('LD_PRELOAD');
putenv('LD_PRELOAD');
passthru('cc -shared -fPIC -w -o ' . escapeshellarg($library) . ' ' . escapeshellarg(__DIR__ . '/fixed_random.c') . ' -ldl');
putenv('LD_PRELOAD=' . ltrim("$preloaded $library"));

$code = 'putenv("SAME_IDS=" . $argv[1]); ini_set("session.use_strict_mode", "1"); session_start(); $_SESSION["a"] = 1; echo session_id();';
$taken = finish(child($code, '1'));
// Nobody has it yet, so it is taken as it is drawn; then two are drawn in vain, and the third is another.
$other = finish(child($code, '2'));
var_dump(strlen($taken), strlen($other), $taken !== $other);
// A fatal error leaves what it had in use to the heap of the request; without that heap a memory check would find it.
putenv('USE_TRACKED_ALLOC=1');
echo preg_replace('/ in .*/s', '', finish(child('ini_set("display_errors", "1"); ini_set("html_errors", "0");' . $code, '3'))), "\n";
// PHP has left the old id by then.
$again = 'start(fresh_id()); $_SESSION["a"] = 1; putenv("SAME_IDS=3"); session_regenerate_id(); echo "not reached";';
echo preg_replace('/ in .*/s', '', finish(child('ini_set("display_errors", "1"); ini_set("html_errors", "0");' . $again, '3'))), "\n";
putenv('LD_PRELOAD=' . $preloaded);
unlink($library);
start($taken);
session_destroy();
?>
--EXPECT--
int(32)
int(32)
bool(true)
Fatal error: session_start(): three new ids are all taken: the random numbers of this machine are none
Fatal error: session_regenerate_id(): three new ids are all taken: the random numbers of this machine are none
