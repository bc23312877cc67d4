--TEST--
the updates of an upload's progress wait once for a session that another request holds
--FILE--
<?php
require __DIR__ . '/common.inc';
$dir = sys_get_temp_dir() . '/sessile-upload-' . getmypid();
mkdir($dir);
file_put_contents("$dir/page.php", '<?php echo $_FILES["file"]["size"];');
$probe = stream_socket_server('tcp://127.0.0.1:0');
$address = stream_socket_get_name($probe, false);
fclose($probe);
$command = [PHP_BINARY, '-n'];
foreach (['extension=' . getenv('SESSILE_PHP_EXTENSION'), 'session.save_handler=sessile',
    'session.save_path="' . ini_get('session.save_path') . '"', 'sessile.lock_wait=1',
    'session.upload_progress.enabled=1', 'session.upload_progress.freq=1',
    'session.upload_progress.min_freq=0', 'session.upload_progress.cleanup=0',
    'display_errors=0', 'log_errors=1', "error_log=$dir/log"] as $setting) {
    array_push($command, '-d', $setting);
}
$null = ['file', '/dev/null', 'w'];
$server = proc_open([...$command, '-S', $address, "$dir/page.php"], [1 => $null, 2 => $null], $pipes);
for ($tries = 0; $tries < 500 && !@stream_socket_client("tcp://$address"); $tries++) {
    usleep(20_000);
}

/** Uploads a file. Returns the answer and the seconds that it took. */
function upload(string $id): array
{
    global $address;
    $part = "--end\r\nContent-Disposition: form-data; name";
    $body = "$part=\"PHP_SESSION_UPLOAD_PROGRESS\"\r\n\r\nphoto\r\n"
        . "$part=\"file\"; filename=\"photo\"\r\n\r\n" . str_repeat('x', 200_000) . "\r\n--end--\r\n";
    $header = "Cookie: PHPSESSID=$id\r\nContent-Type: multipart/form-data; boundary=end";
    $options = ['method' => 'POST', 'header' => $header, 'content' => $body];
    $start = microtime(true);
    $answer = file_get_contents("http://$address/", false, stream_context_create(['http' => $options]));
    return [$answer, microtime(true) - $start];
}

$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
$holder = holder($id);
[$answer, $seconds] = upload($id);
echo "$answer bytes beside a page: ", $seconds >= 1 && $seconds < 3 ? 'one wait' : "$seconds s", "\n";
echo preg_match_all('/PHP Warning/', (string) @file_get_contents("$dir/log")), " warning\n";
finish($holder);
echo json_encode(stored($id)), "\n";
[$answer] = upload($id);
echo "$answer bytes alone, done: ", json_encode(stored($id)['upload_progress_photo']['done']), "\n";
proc_terminate($server);
proc_close($server);
exec('rm -r ' . escapeshellarg($dir));
?>
--EXPECT--
200000 bytes beside a page: one wait
1 warning
{"a":1,"by":"holder"}
200000 bytes alone, done: true
