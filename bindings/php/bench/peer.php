<?php
// A process that answers each line with a line of JSON. It ends when its input is closed.

final class Peer
{
    private $process;
    private array $pipes = [];

    public function __construct(public readonly string $name, array $command)
    {
        // The process inherits standard error: passing STDERR would reset the offset of the file to
        // PHP's last write.
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $this->pipes);
    }

    public function ask(string $request): array
    {
        $this->send($request);
        return $this->receive();
    }

    public function send(string $request): void
    {
        fwrite($this->pipes[0], "$request\n");
    }

    public function receive(): array
    {
        $answer = json_decode((string) fgets($this->pipes[1]), true);
        if ($answer === null) {
            fwrite(STDERR, "the process of $this->name ended while it was asked\n");
            exit(1);
        }
        return $answer;
    }

    public function end(): void
    {
        fclose($this->pipes[0]);
        proc_close($this->process);
    }
}
