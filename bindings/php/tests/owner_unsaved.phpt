--TEST--
the sessions of a user that are ended include the one that has just logged in
--INI--
session.save_handler=sessile
session.use_cookies=0
session.cache_limiter=
--FILE--
<?php
ob_start();
$dir = sys_get_temp_dir() . '/sessile-unsaved-owner-' . getmypid();
foreach (["files:$dir", "sessile:$dir-engine", 'memory:'] as $path) {
    session_save_path($path);
    foreach (['stored', 'new', 'regenerated'] as $id) {
        session_id($id);
        session_start();
        if ($id !== 'new') {
            $_SESSION['cart'] = 1;
            session_write_close();
            session_start();
        }
        $_SESSION['user'] = 17;
        sessile_set_owner('17');
        if ($id === 'regenerated') {
            session_regenerate_id(true);
        }
        $ended = [sessile_revoke('18'), sessile_revoke('17', true), sessile_revoke('17'), sessile_revoke('17')];
        $saved = session_write_close();
        session_start(['read_and_close' => true]);
        echo $id, ' ', json_encode([$ended, $saved, $_SESSION]), "\n";
    }
    echo sessile_counters()['destroyed_commits'], "\n";
}
exec('rm -rf ' . escapeshellarg($dir) . ' ' . escapeshellarg("$dir-engine"));
?>
--EXPECT--
stored [[0,0,1,0],true,[]]
new [[0,0,1,0],true,[]]
regenerated [[0,0,1,0],true,[]]
3
stored [[0,0,1,0],true,[]]
new [[0,0,1,0],true,[]]
regenerated [[0,0,1,0],true,[]]
3
stored [[0,0,1,0],true,[]]
new [[0,0,1,0],true,[]]
regenerated [[0,0,1,0],true,[]]
3
