<?php
// A mail server with one user and an empty inbox, for Roundcube: php imap_server.php PORT
//
// It knows as much of IMAP (RFC 3501) as a log-in and a look into the inbox take.

const USER = 'anna';
const PASSWORD = 'secret';

/** @return string[] the lines that answer a command, the tagged one last */
function answer(string $tag, string $command, string $rest): array
{
    [$lines, $last] = match ($command) {
        'CAPABILITY' => [['* CAPABILITY IMAP4rev1'], 'OK done'],
        'LOGIN' => [[], str_replace('"', '', $rest) === USER . ' ' . PASSWORD ? 'OK logged in'
            : 'NO [AUTHENTICATIONFAILED] wrong user or password'],
        'LIST', 'LSUB' => [["* $command () \"/\" INBOX"], 'OK done'],
        'STATUS' => [['* STATUS INBOX (MESSAGES 0 RECENT 0 UNSEEN 0 UIDNEXT 1 UIDVALIDITY 1)'],
            'OK done'],
        'SELECT', 'EXAMINE' => [['* 0 EXISTS', '* 0 RECENT', '* FLAGS (\Seen)',
            '* OK [UIDVALIDITY 1]', '* OK [UIDNEXT 1]'], 'OK [READ-WRITE] done'],
        'SEARCH', 'UID' => [['* SEARCH'], 'OK done'],
        'LOGOUT' => [['* BYE'], 'OK done'],
        default => [[], 'OK done'],
    };
    return [...$lines, "$tag $last"];
}

$server = stream_socket_server("tcp://127.0.0.1:$argv[1]");
$clients = [];
while (true) {
    $ready = [$server, ...$clients];
    $none = null;
    stream_select($ready, $none, $none, null);
    foreach ($ready as $socket) {
        if ($socket === $server) {
            $clients[] = $client = stream_socket_accept($server);
            fwrite($client, "* OK ready\r\n");
        } elseif (($line = fgets($socket)) === false) {
            $clients = array_filter($clients, fn ($client) => $client !== $socket);
        } else {
            [$tag, $command, $rest] = explode(' ', trim($line), 3) + [1 => '', ''];
            fwrite($socket, implode("\r\n", answer($tag, strtoupper($command), $rest)) . "\r\n");
        }
    }
}
