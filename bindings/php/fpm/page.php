<?php
// The pages of the test with php-fpm; client.php requests them.
switch ($_GET['do'] ?? '') {
    case 'count':
        session_start();
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        // The answer follows the commit, so that it reports stored state.
        session_write_close();
        echo $_SESSION['n'];
        break;
    case 'hold':
        session_start();
        $_SESSION['n'] = -1;
        // A fixed path: the client must not choose one.
        file_put_contents(__DIR__ . '/held', getmypid());
        sleep(30);
        break;
    case 'empty':
        setcookie('first', '1');
        session_start();
        setcookie('second', '2');
        session_write_close();
        break;
    case 'late':
        session_start();
        echo 'headers are sent';
        flush();
        session_write_close();
        break;
    case 'peek':
        session_start(['read_and_close' => true]);
        echo json_encode($_SESSION);
        break;
    case 'upload':
        session_start();
        $_SESSION['n']++;
        session_write_close();
        echo json_encode([$_FILES['file']['size'] ?? null, $_SESSION]);
        break;
    case 'merge':
        // A key of its own, whose value is the last one that this request knows of.
        ini_set('sessile.concurrency', 'merge');
        session_start();
        $before = sessile_counters()['merge_conflicts'];
        $_SESSION['shop']['cart'][$_GET['key']] = $_SESSION['shop']['last'] ?? '';
        $_SESSION['shop']['last'] = $_GET['key'];
        session_write_close();
        echo sessile_counters()['merge_conflicts'] - $before;
        break;
    case 'opcache':
        echo (int) (opcache_get_status(false)['opcache_enabled'] ?? false);
        break;
}
