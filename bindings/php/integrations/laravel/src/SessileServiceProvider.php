<?php

namespace Sessile\Laravel;

use Illuminate\Container\Container;
use Illuminate\Support\ServiceProvider;

/** Registers SESSION_DRIVER=sessile. php.ini names the store, as for every application. */
final class SessileServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        $this->app->make('session')->extend('sessile', function ($app) {
            if (!extension_loaded('sessile')) {
                throw new \RuntimeException('the PHP extension sessile is not loaded; add'
                    . ' extension = sessile to php.ini');
            }
            if (ini_get('session.save_handler') !== 'sessile') {
                throw new \RuntimeException(
                    'the session driver sessile needs session.save_handler = sessile in php.ini');
            }
            if (isset($_SERVER['LARAVEL_OCTANE'])
                && $app->make('config')->get('octane.server') === 'swoole') {
                throw new \RuntimeException(
                    'the session driver sessile keeps one session at a time, and Swoole runs'
                    . ' several requests at once in a process: use another server of Octane, or'
                    . ' another session driver');
            }
            $config = $app->make('config')->get('session');
            return new SessileHandler((int) ($config['lifetime'] * 60),
                $config['lottery'] ?? [2, 100], fn () => self::user(Container::getInstance()));
        });
    }

    /**
     * The user of the default guard, if the request has looked it up. No query is made for it. The
     * driver may outlive the application that made it.
     */
    private static function user($app): ?string
    {
        if (!$app->resolved('auth')) {
            return null;
        }
        $guard = $app->make('auth')->guard();
        return method_exists($guard, 'hasUser') && $guard->hasUser() ? (string) $guard->id() : null;
    }
}
