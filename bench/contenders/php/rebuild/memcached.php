<?php
// The registry in memcached, through PHP's extension. What `set` answers is what memcached said: an item over its limit is
// refused. Without compression: with it, an entry of a few megabytes more meets the same limit.

function cache(): Memcached
{
    $cache = new Memcached('registry');
    if (!$cache->getServerList()) {
        $cache->setOption(Memcached::OPT_COMPRESSION, false);
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
