# 8 clients count on one session: perl clients.pl PORT REQUESTS PAGE... with the cookie of the answer
#
# PAGE are pages that die or end their worker first. What is counted must be the number of requests,
# and those of the pages that store what they have counted: their names begin with `counts`.
use strict;
use warnings;
use HTTP::Tiny;
use POSIX ();

my ($port, $requests, @first) = @ARGV;

sub ask {
    my ($client, $page, $cookie) = @_;
    my %headers = $cookie ? (Cookie => $cookie) : ();
    return $client->get("http://127.0.0.1:$port/$page", { headers => \%headers });
}

my $client = HTTP::Tiny->new(timeout => 60);
my $answer;
for (1 .. 200) {
    $answer = ask($client, 'count');
    last if $answer->{success};
    select undef, undef, undef, 0.05;
}
my ($cookie) = ($answer->{headers}{'set-cookie'} // '') =~ /^(\w+=\w+)/
    or die "the server does not answer: $answer->{status} $answer->{content}\n";
my ($before) = split ' ', $answer->{content};
for my $page (@first) {
    ask($client, $page, $cookie);
    $before++ if $page =~ /^counts/;
}

my @clients = map {
    my $child = fork // die "no process: $!\n";
    if (!$child) {
        my $own = HTTP::Tiny->new(timeout => 60, keep_alive => 1);
        for (1 .. $requests) {
            my $answer = ask($own, 'count', $cookie);
            next if $answer->{success};
            print STDERR "failed: $answer->{status} $answer->{content}\n";
            POSIX::_exit(1);
        }
        POSIX::_exit(0);
    }
    $child;
} 1 .. 8;
my $failed = grep { waitpid $_, 0; $? } @clients;
my ($count) = split ' ', ask($client, 'count', $cookie)->{content};
my $counted = $count - $before - 1;
print "8 clients with $requests requests each on one session: counted $counted\n";
exit($failed || $counted != 8 * $requests ? 1 : 0);
