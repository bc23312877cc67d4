# Runs count.psgi in 8 workers of Starman until it is stopped: perl -Mblib starman.pl PORT
#
# Starman takes its module paths from here.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);

my ($port) = @ARGV;
exec $^X, (map { "-I$_" } grep { !ref } @INC), '-S', 'starman', '--preload-app', '--workers', 8,
    '--listen', "127.0.0.1:$port", '--log-level', 0, dirname(abs_path(__FILE__)) . '/count.psgi'
    or die "Starman does not start: $!\n";
