<?php
// A process that is asked in lines and answers each with a line of JSON. It ends when nobody can ask it any more.

final class Peer
{
    private $process;
    private array $pipes = [];

    /** @param list<string> $command */
    public function __construct(public readonly string $name, array $command)
    {
        // It inherits the standard error: handing over STDERR would set the file behind it back to where PHP last wrote.
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
