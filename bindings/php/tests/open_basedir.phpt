--TEST--
a script that open_basedir confines cannot keep sessions elsewhere
--FILE--
<?php
require __DIR__ . '/common.inc';
$inside = sys_get_temp_dir() . '/sessile-in-' . getmypid();
mkdir($inside);
chdir($inside);
ini_set('open_basedir', $inside);
foreach (['files:', 'sessile:', 'files://', 'files:///', 'redis+unix:', ''] as $scheme) {
    var_dump(@ini_set('session.save_path', $scheme . dirname($inside) . '/sessile-out-' . getmypid() . '?x=1'));
}
var_dump(@ini_set('session.save_path', "files:$inside/%2e%2e/sessile-out-" . getmypid()));
var_dump(is_string(ini_set('session.save_path', "files:$inside/sessions")), start(fresh_id()));
$_SESSION['a'] = 1;
var_dump(session_write_close());
$files = new RecursiveDirectoryIterator($inside, FilesystemIterator::SKIP_DOTS);
foreach (new RecursiveIteratorIterator($files, RecursiveIteratorIterator::CHILD_FIRST) as $file) {
    $file->isDir() ? rmdir($file) : unlink($file);
}
rmdir($inside);
?>
--EXPECT--
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
bool(true)
bool(true)
bool(true)
