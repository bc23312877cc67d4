<?php
// A Laravel application with the web middleware and the driver sessile, for client.php.

use Illuminate\Auth\GenericUser;
use Illuminate\Contracts\Auth\Authenticatable;
use Illuminate\Contracts\Auth\UserProvider;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap;
use Illuminate\Foundation\Http\Kernel;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Route;

require 'Illuminate/autoload.php';
$package = dirname(__DIR__) . '/laravel/src';
require "$package/SessileHandler.php";
require "$package/SessileServiceProvider.php";

$base = getenv('TEST_DIRECTORY') . '/laravel';
if (!is_file("$base/config/session.php")) {
    foreach (['bootstrap/cache', 'config', 'storage/logs'] as $directory) {
        @mkdir("$base/$directory", 0700, true);
    }
    $write = fn ($name, $values) => file_put_contents("$base/config/$name.php",
        '<?php return ' . var_export($values, true) . ';', LOCK_EX);
    $write('app', ['key' => str_repeat('k', 32), 'cipher' => 'AES-256-CBC', 'timezone' => 'UTC',
        'providers' => [
        Illuminate\Filesystem\FilesystemServiceProvider::class,
        Illuminate\Encryption\EncryptionServiceProvider::class,
        Illuminate\Cookie\CookieServiceProvider::class,
        Illuminate\Session\SessionServiceProvider::class,
        Illuminate\Auth\AuthServiceProvider::class,
        Sessile\Laravel\SessileServiceProvider::class,
    ]]);
    $write('auth', ['defaults' => ['guard' => 'web'],
        'guards' => ['web' => ['driver' => 'session', 'provider' => 'users']],
        'providers' => ['users' => ['driver' => 'numbers']]]);
    $write('session', ['driver' => 'sessile', 'lifetime' => 0.3, 'expire_on_close' => true,
        'lottery' => [1, 1],
        'cookie' => 'shop', 'path' => '/', 'domain' => null, 'secure' => false, 'http_only' => true,
        'same_site' => 'lax']);
}

/** Users without a database: each number is one. */
class Users implements UserProvider
{
    public function retrieveById($identifier)
    {
        return new GenericUser(['id' => $identifier]);
    }

    public function retrieveByToken($identifier, $token)
    {
        return null;
    }

    public function updateRememberToken(Authenticatable $user, $token)
    {
    }

    public function retrieveByCredentials(array $credentials)
    {
        return null;
    }

    public function validateCredentials(Authenticatable $user, array $credentials)
    {
        return false;
    }
}

class WebKernel extends Kernel
{
    protected $bootstrappers =
        [Bootstrap\LoadConfiguration::class, Bootstrap\RegisterFacades::class,
        Bootstrap\RegisterProviders::class, Bootstrap\BootProviders::class];
    protected $middlewareGroups = ['web' => [Illuminate\Cookie\Middleware\EncryptCookies::class,
        Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse::class,
        Illuminate\Session\Middleware\StartSession::class]];
}

$app = new Application($base);
$app->singleton(Illuminate\Contracts\Http\Kernel::class, WebKernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class,
    Illuminate\Foundation\Exceptions\Handler::class);
$app->booted(function () {
    Auth::provider('numbers', fn () => new Users());
    Route::middleware('web')->group(function () {
        Route::get('count', function (Request $request) {
            $request->session()->put('n', $n = $request->session()->get('n', 0) + 1);
            usleep(5_000);
            return (string) $n;
        });
        Route::get('login', function (Request $request) {
            $request->session()->migrate(true);
            $request->session()->put('user', 'anna');
            return 'in';
        });
        Route::get('logout', function (Request $request) {
            $request->session()->invalidate();
            return 'out';
        });
        Route::get('enter', function () {
            Auth::login(new GenericUser(['id' => 17]));
            return 'in';
        });
        Route::get('who', fn () => (string) Auth::id());
        Route::get('end-others', fn () => (string) sessile_revoke((string) Auth::id(), true));
        Route::get('user', fn (Request $request) => $request->session()->get('user', 'nobody'));
    });
});
$kernel = $app->make(Illuminate\Contracts\Http\Kernel::class);
$response = $kernel->handle($request = Request::capture())->send();
$kernel->terminate($request, $response);
