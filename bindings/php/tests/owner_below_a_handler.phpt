--TEST--
a handler in PHP that extends SessionHandler sets owners and ends their sessions
--INI--
session.save_handler=sessile
session.use_cookies=0
session.cache_limiter=
--FILE--
<?php
ob_start();
$dir = sys_get_temp_dir() . '/sessile-below-' . getmypid();
session_save_path('files:' . $dir);
class Shop extends SessionHandler
{
    public function write(string $id, string $data): bool
    {
        return sessile_set_owner('17') && parent::write($id, $data);
    }
}
session_set_save_handler(new Shop());
foreach (['first', 'second'] as $id) {
    session_id($id);
    session_start();
    $_SESSION['cart'] = $id;
    var_dump(session_write_close());
}
session_id('third');
session_start();
var_dump(sessile_revoke('17'));
session_write_close();
session_id('first');
session_start();
var_dump($_SESSION);
session_abort();
var_dump(@sessile_set_owner('17'));
foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator($dir,
    FilesystemIterator::SKIP_DOTS), RecursiveIteratorIterator::CHILD_FIRST) as $file) {
    $file->isDir() ? rmdir($file) : unlink($file);
}
rmdir($dir);
?>
--EXPECT--
bool(true)
bool(true)
int(2)
array(0) {
}
bool(false)
