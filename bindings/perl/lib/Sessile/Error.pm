package Sessile::Error;
use strict;
use warnings;
use overload '""' => sub { $_[0]{message} }, bool => sub { 1 }, fallback => 1;

sub new {
    my ($class, $kind, $message) = @_;
    return bless { kind => $kind, message => $message }, $class;
}

sub kind    { return $_[0]{kind} }
sub message { return $_[0]{message} }

1;

__END__

=head1 NAME

Sessile::Error - a failure of a store, with its kind

=head1 SYNOPSIS

    my $session = eval { $sessions->begin($id) };
    if (ref $@ and $@->isa('Sessile::Error') and $@->kind eq 'lock-timeout') { ... }

=head1 DESCRIPTION

C<message> names the operation, the store, the cause and what to do; as a string the object is its
message. It has no session id, no payload and no password. C<kind> is one of the kinds in
F<crates/capi/ERRORS.md>, such as C<lock-timeout>, C<too-large> or C<unreachable>.

=cut
