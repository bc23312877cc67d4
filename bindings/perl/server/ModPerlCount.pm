# A handler of mod_perl that counts in a session of Apache::Session.
package ModPerlCount;
use strict;
use warnings;
use Apache2::Const -compile => qw(OK);
use Apache2::RequestIO ();
use Apache2::RequestRec ();
use APR::Table ();
use Apache::Session::Sessile;

sub handler {
    my ($request) = @_;
    my ($id) = ($request->headers_in->get('Cookie') // '') =~ /session=(\w+)/;
    my %session;
    tie %session, 'Apache::Session::Sessile', $id, { Url => $ENV{STORE}, LockWait => 60 };
    my $count = ++$session{count};
    $request->content_type('text/plain');
    $request->headers_out->set('Set-Cookie' => "session=$session{_session_id}");
    # As with Apache::Session, a request that dies stores what it has changed.
    die "a defect of the application\n" if $request->uri eq '/counts_and_dies';
    untie %session;
    $request->print("$count $$");
    return Apache2::Const::OK;
}

1;
