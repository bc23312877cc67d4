--TEST--
a library of another interface than the extension was compiled for is refused when PHP starts
--SKIPIF--
<?php if (!shell_exec('command -v cc')) die('skip there is no C compiler'); ?>
--FILE--
<?php
$build = dirname(__DIR__);
preg_match('/^INCLUDES = (.*)$/m', file_get_contents("$build/Makefile"), $includes);
$library = sys_get_temp_dir() . '/sessile-abi-' . getmypid() . '.so';
putenv('LD_PRELOAD');
// Lazily bound: what the library lacks is never called.
passthru("cc -shared -fPIC -w -Wl,-z,lazy -DHAVE_CONFIG_H -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1"
    . " -DCOMPILE_DL_SESSILE -I$build -I$build/include $includes[1] -o " . escapeshellarg($library)
    . " $build/sessile.c " . escapeshellarg(__DIR__ . '/other_abi.c'));
$php = [PHP_BINARY, '-n', '-d', 'display_errors=1', '-d', 'html_errors=0', '-d', "extension=$library"];
$process = proc_open([...$php, '-r', 'echo "started";'],
    [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
echo preg_replace('/ in .*/', '', stream_get_contents($pipes[1]));
proc_close($process);
unlink($library);
?>
--EXPECTF--
Warning: PHP Startup: the header has version %d of the library's interface, the library version 999; build the extension again with both from one source%A
Fatal error: Unable to start sessile module%A
