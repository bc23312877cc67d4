# Sessions of Apache::Session::Sessile, for Keeper::ApacheSession. Setting: `dir` has a directory for
# each engine: a fresh one is what removes all sessions.
package Keeper::Sessile;
use strict;
use warnings;
our @ISA = ('Keeper::ApacheSession');

sub new {
    my ($class, $settings) = @_;
    my $self = Keeper::ApacheSession::new($class, $settings);
    $self->{engines} = 0;
    $self->clear;
    return $self;
}

sub clear {
    my ($self) = @_;
    $self->{arguments}{Url} = "sessile:$self->{dir}/engine-" . ++$self->{engines};
    return;
}

1;
