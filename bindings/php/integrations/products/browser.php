<?php
// A browser for tests: cookies, forms, redirects, several requests at a time.

final class Page
{
    private ?DOMXPath $nodes = null;

    /** @param string[] $set the Set-Cookie headers of this answer */
    public function __construct(public readonly string $url, public readonly int $status,
        public readonly array $set, public readonly string $location, public readonly string $body)
    {
    }

    public function has(string $text): bool
    {
        return str_contains($this->body, $text);
    }

    public function find(string $xpath): ?DOMElement
    {
        if (!$this->nodes) {
            $document = new DOMDocument();
            @$document->loadHTML($this->body === '' ? '<p>' : $this->body);
            $this->nodes = new DOMXPath($document);
        }
        return $this->nodes->query($xpath)->item(0);
    }

    /** The fields of the first form that contains such an element; buttons are left out. */
    public function fields(string $of): array
    {
        $form = $this->find("//form[$of]")
            ?? throw new Exception("$this->url has no form with $of: " . $this->said());
        $fields = [];
        foreach ($this->nodes->query('.//input | .//textarea | .//select', $form) as $field) {
            $type = $field->getAttribute('type');
            $chosen = !in_array($type, ['checkbox', 'radio']) || $field->hasAttribute('checked');
            if (in_array($type, ['submit', 'button', 'file']) || !$chosen
                || $field->hasAttribute('disabled')) {
                continue;
            }
            $fields[$field->getAttribute('name')] = match ($field->tagName) {
                'textarea' => $field->textContent,
                'select' => $this->nodes->query('.//option[@selected]', $field)->item(0)
                    ?->getAttribute('value') ?? '',
                default => $field->getAttribute('value'),
            };
        }
        unset($fields['']);
        return $fields;
    }

    public function action(string $of): string
    {
        return $this->find("//form[$of]")?->getAttribute('action') ?? '';
    }

    /** The beginning of the text, for messages. */
    public function said(): string
    {
        $text = preg_replace('#<(script|style|head)\b.*?</\1>#s', '', $this->body);
        return $this->status . ' ' . trim(substr(preg_replace('/\s+/', ' ', strip_tags($text)), 0,
            600));
    }
}

final class Browser
{
    private const REDIRECTS_MAX = 10;

    /** The cookies by name. */
    public array $cookies = [];

    /** The names of those for HTTPS alone. */
    private array $secure = [];

    /** @param int[] $ports of the schemes http and https, both without TLS */
    public function __construct(private readonly array $ports)
    {
    }

    public function get(string $url): Page
    {
        return $this->follow($this->request([[$url, null]])[0]);
    }

    /** @return Page[] all requested before any answer is read */
    public function get_all(array $urls): array
    {
        return $this->request(array_map(fn ($url) => [$url, null], $urls));
    }

    public function post(string $url, array $fields): Page
    {
        return $this->follow($this->request([[$url, $fields]])[0]);
    }

    /** Submits the first form of the page that contains such an element. */
    public function submit(Page $page, string $of, array $fields): Page
    {
        return $this->post($this->absolute($page->action($of), $page->url),
            $fields + $page->fields($of));
    }

    /** A browser with the same cookies: one that has stolen them. */
    public function copy(): self
    {
        return clone $this;
    }

    private function follow(Page $page): Page
    {
        for ($redirects = 0; $page->location !== ''; $redirects++) {
            if ($redirects === self::REDIRECTS_MAX) {
                throw new Exception("$page->url redirects too often");
            }
            $page = $this->request([[$this->absolute($page->location, $page->url), null]])[0];
        }
        return $page;
    }

    private function absolute(string $url, string $base): string
    {
        if ($url === '') {
            return $base;
        }
        $of = parse_url($base);
        if (preg_match('#^(https?)://[^/]*(/.*)?$#', $url, $parts)) {
            return "$parts[1]:" . ($parts[2] ?? '/');
        }
        return "$of[scheme]:" . match ($url[0]) {
            '/' => $url,
            '?' => $of['path'] . $url,
            default => preg_replace('#[^/]*$#', '', $of['path']) . preg_replace('#^\./#', '', $url),
        };
    }

    /** @param array $requests of [scheme:/path, fields or null] */
    private function request(array $requests): array
    {
        $sockets = [];
        foreach ($requests as [$url, $fields]) {
            $sockets[] = $this->send($url, $fields);
        }
        foreach ($requests as $number => [$url]) {
            $answers[] = $this->receive($url, $sockets[$number]);
        }
        return $answers;
    }

    /** @return resource */
    private function send(string $url, ?array $fields)
    {
        [$scheme, $path] = explode(':', $url, 2);
        $socket = stream_socket_client("tcp://127.0.0.1:{$this->ports[$scheme]}");
        stream_set_timeout($socket, 60);
        $cookies = $scheme === 'https' ? $this->cookies
            : array_diff_key($this->cookies, $this->secure);
        $lines = [($fields === null ? 'GET' : 'POST') . ' ' . preg_replace('/#.*/', '', $path)
            . ' HTTP/1.0', 'Host: 127.0.0.1', 'User-Agent: Mozilla/5.0', 'Accept: text/html'];
        if ($cookies) {
            $lines[] = 'Cookie: ' . implode('; ', array_map(fn ($name, $value) => "$name=$value",
                array_keys($cookies), $cookies));
        }
        $body = '';
        if ($fields !== null) {
            $body = http_build_query($fields);
            array_push($lines, "Referer: $scheme://127.0.0.1$path",
                'Content-Type: application/x-www-form-urlencoded',
                'Content-Length: ' . strlen($body));
        }
        fwrite($socket, implode("\r\n", $lines) . "\r\n\r\n$body");
        return $socket;
    }

    private function receive(string $url, $socket): Page
    {
        $answer = stream_get_contents($socket);
        [$head, $body] = explode("\r\n\r\n", $answer, 2) + [1 => ''];
        preg_match('#^HTTP/1.. (\d+)#', $head, $status);
        preg_match('/^Location: *([^\r]*)/mi', $head, $location);
        preg_match_all('/^Set-Cookie: *([^\r]*)/mi', $head, $set);
        array_map($this->keep(...), $set[1]);
        return new Page($url, (int) ($status[1] ?? 0), $set[1], $location[1] ?? '', $body);
    }

    private function keep(string $set): void
    {
        [$pair, $attributes] = explode(';', $set, 2) + [1 => ''];
        [$name, $value] = explode('=', $pair, 2);
        $ended = preg_match('/expires=([^;]*)/i', $attributes, $date)
            && strtotime($date[1]) < time();
        if ($value === '' || $ended) {
            unset($this->cookies[$name], $this->secure[$name]);
            return;
        }
        $this->cookies[$name] = $value;
        if (preg_match('/;\s*secure\b/i', ";$attributes")) {
            $this->secure[$name] = true;
        } else {
            unset($this->secure[$name]);
        }
    }
}
