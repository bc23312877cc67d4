<?php

namespace Sessile\Laravel;

use Illuminate\Support\ServiceProvider;

/** Gives SESSION_DRIVER=sessile its meaning. Which store that is stands in php.ini, as for every other application. */
final class SessileServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        $this->app->make('session')->extend('sessile', function ($app) {
            if (ini_get('session.save_handler') !== 'sessile') {
                throw new \RuntimeException('the session driver sessile needs session.save_handler = sessile in php.ini');
            }
            $config = $app->make('config')->get('session');
            return new SessileHandler((int) ($config['lifetime'] * 60), $config['lottery'] ?? [2, 100]);
        });
    }
}
