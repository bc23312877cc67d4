--TEST--
the functions of the extension are those that sessile.stub.php declares
--FILE--
<?php
/** The declaration of a function, as Reflection knows it. */
function declaration(ReflectionFunction $function): string
{
    $parameters = [];
    foreach ($function->getParameters() as $parameter) {
        $parameters[] = trim($parameter->getType() . ' ' . ($parameter->isPassedByReference() ? '&' : '')
            . ($parameter->isVariadic() ? '...' : '') . '$' . $parameter->getName())
            . ($parameter->isDefaultValueAvailable() ? ' = ' . var_export($parameter->getDefaultValue(), true) : '');
    }
    return ($function->isDeprecated() ? 'deprecated ' : '') . 'function ' . ($function->returnsReference() ? '&' : '')
        . $function->getShortName() . '(' . implode(', ', $parameters) . '): '
        . ($function->getReturnType() ?? $function->getTentativeReturnType());
}
$stub = file_get_contents(__DIR__ . '/../sessile.stub.php');
eval(preg_replace('/^<\?php/', 'namespace Stub;', $stub));
$declared = array_map(fn ($name) => declaration(new ReflectionFunction($name)),
    array_filter(get_defined_functions()['user'], fn ($name) => str_starts_with($name, 'stub\\')));
$made = array_map('declaration', (new ReflectionExtension('sessile'))->getFunctions());
sort($declared);
sort($made);
var_dump(count($declared) > 0, $declared === $made);
if ($declared !== $made) {
    print_r([$declared, $made]);
}
?>
--EXPECT--
bool(true)
bool(true)
