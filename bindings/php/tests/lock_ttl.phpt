--TEST--
a lock on a server lives 30 s longer than max_execution_time, unless the URL says otherwise
--SKIPIF--
<?php
if (!shell_exec('command -v redis-server')) {
    exit('skip redis-server is not installed');
}
?>
--FILE--
<?php
require __DIR__ . '/common.inc';
$dir = sys_get_temp_dir() . '/sessile-ttl-' . getmypid();
mkdir($dir);
$command = ['redis-server', '--port', '0', '--unixsocket', "$dir/redis", '--dir', $dir, '--save', ''];
$server = proc_open($command, [1 => ['file', '/dev/null', 'w']], $pipes);
for ($tries = 0; $tries < 500 && !($redis = @stream_socket_client("unix://$dir/redis")); $tries++) {
    usleep(20_000);
}
function ask(string $command): int
{
    global $redis;
    fwrite($redis, "$command\r\n");
    return (int) substr(fgets($redis), 1);
}
/** The life of the only lock, in seconds. */
function life(): float
{
    global $redis;
    fwrite($redis, "KEYS *:l:*\r\n");
    fgets($redis);
    fgets($redis);
    return round(ask('PTTL ' . trim(fgets($redis))) / 1000);
}
function lock_ttl(string $options = ''): float
{
    global $dir;
    session_save_path("redis+unix:$dir/redis$options");
    start(fresh_id());
    $life = life();
    session_abort();
    return $life;
}
set_time_limit(0);
echo 'no limit: ', lock_ttl(), "\n";
set_time_limit(100);
echo '100 s: ', lock_ttl(), "\n";
ini_set('max_execution_time', '300');
echo '300 s: ', lock_ttl(), "\n";
echo 'in the URL: ', lock_ttl('?lock_ttl_ms=20000'), "\n";
// PHP's timer has another limit then.
$command = [PHP_BINARY, '-n'];
foreach (['extension=' . getenv('SESSILE_PHP_EXTENSION'), 'session.save_handler=sessile',
    "session.save_path=\"redis+unix:$dir/redis\"", 'session.auto_start=1', 'max_input_time=77',
    'max_execution_time=100'] as $setting) {
    array_push($command, '-d', $setting);
}
$early = proc_open([...$command, '-r', 'echo "held\n"; fgets(STDIN);'], [['pipe', 'r'], ['pipe', 'w']], $pipes);
fgets($pipes[1]);
echo 'before the script, 100 s: ', life(), "\n";
fclose($pipes[0]);
proc_close($early);
proc_terminate($server, 9);
proc_close($server);
exec('rm -r ' . escapeshellarg($dir));
?>
--EXPECT--
no limit: 60
100 s: 130
300 s: 330
in the URL: 20
before the script, 100 s: 130
