# Sessions in Cache::FastMmap, by its own API: a session is a value under its id. Each get and each set locks a part of the
# file while it lasts; nothing is locked from one to the other. The oldest values give way when a part is full. Settings:
# `share_file`, `cache_size`.
package Keeper::FastMmap;
use strict;
use warnings;

use constant ID_BYTES => 16;

sub new {
    my ($class, $settings) = @_;
    require Cache::FastMmap;
    open my $random, '<:raw', '/dev/urandom' or die "no random numbers: $!\n";
    my %options = (share_file => $settings->{share_file}, cache_size => $settings->{cache_size}, init_file => 1);
    return bless { cache => Cache::FastMmap->new(%options), random => $random, id => undef }, $class;
}

sub begin {
    my ($self, $id) = @_;
    if (!defined $id) {
        sysread($self->{random}, my $bytes, ID_BYTES) == ID_BYTES or die "no random numbers: $!\n";
        $self->{id} = unpack 'H*', $bytes;
        return {};
    }
    $self->{id} = $id;
    return $self->{cache}->get($id) // die "the session is not in the cache\n";
}

sub end {
    my ($self, $session) = @_;
    $self->{cache}->set($self->{id}, $session) or die "the cache does not take the session\n";
    return $self->{id};
}

sub clear {
    my ($self) = @_;
    $self->{cache}->clear;
}

1;
