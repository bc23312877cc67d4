<?php
// A Symfony FrameworkBundle application with the handler of php.ini, for client.php.

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

require 'Symfony/Bundle/FrameworkBundle/autoload.php';

class ShopKernel extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle()];
    }

    public function getProjectDir(): string
    {
        return getenv('TEST_DIRECTORY') . '/symfony';
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => 'secret', 'session' => [
            'handler_id' => null, 'storage_factory_id' => 'session.storage.factory.native',
            'gc_maxlifetime' => 18, 'gc_probability' => 1, 'gc_divisor' => 1,
        ]]);
        $container->services()->set('logger', Psr\Log\NullLogger::class);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        foreach (['count', 'login', 'logout', 'user'] as $page) {
            $routes->add($page, "/$page")->controller([$this, $page]);
        }
    }

    public function count(Request $request): Response
    {
        $session = $request->getSession();
        $session->set('n', $n = $session->get('n', 0) + 1);
        usleep(5_000);
        return new Response((string) $n);
    }

    public function login(Request $request): Response
    {
        // As a firewall does: only an open session can get another id, or end.
        $request->getSession()->start();
        $request->getSession()->migrate(true);
        $request->getSession()->set('user', 'anna');
        return new Response('in');
    }

    public function logout(Request $request): Response
    {
        $request->getSession()->start();
        $request->getSession()->invalidate();
        return new Response('out');
    }

    public function user(Request $request): Response
    {
        return new Response($request->getSession()->get('user', 'nobody'));
    }
}

@mkdir(getenv('TEST_DIRECTORY') . '/symfony');
$kernel = new ShopKernel('prod', false);
$response = $kernel->handle($request = Request::createFromGlobals())->send();
$kernel->terminate($request, $response);
