<?php
// The registry in memcached, through PHP's extension. What `set` answers is what memcached said: an
// item over its limit is refused. With compression an entry that has much in common with itself
// meets the same limit some megabytes later.

function cache(): Memcached
{
    $cache = new Memcached('registry');
    if (!$cache->getServerList()) {
        $cache->setOption(Memcached::OPT_COMPRESSION, isset($_GET['compress']));
        $cache->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_PHP);
        $cache->addServer(ini_get('session.save_path'), 0);
    }
    return $cache;
}

function load(): ?array
{
    $registry = cache()->get('registry');
    return is_array($registry) ? $registry : null;
}

function save(array $registry): bool
{
    return cache()->set('registry', $registry);
}
