"""A small project: payments with a loop that retries them, and a README and a changelog that speak of both."""

README = """\
# Shop

Payments are retried. How payments are retried is described below: a payment that fails is retried up to three times,
and each retry of a payment waits longer than the retry before.

## Retries of payments

Retries are on by default. Payments that still fail after all retries are reported to the customer.
"""
CHANGELOG = (
    "# Changelog\n\n- Payments are retried with a longer delay.\n- Fixed: retried payments were charged twice.\n"
)
GATEWAY = '''\
"""Talk to the payment gateway."""

import time


class PaymentError(Exception):
    """The gateway did not take a payment."""


class Gateway:
    """A connection to the gateway."""

    def __init__(self, client, limit=3, pause=0.5):
        """Keep the client; limit: how often a payment is sent at most."""
        self.client = client
        self.limit = limit
        self.pause = pause

    def charge(self, payment):
        """Charge a payment once."""
        reply = self.client.post("/charges", json=payment.as_dict())
        if reply.status != 200:
            raise PaymentError(reply.text)
        return reply.json()["id"]

    def charge_with_retries(self, payment):
        """Charge a payment, and try again when the gateway is not available.

        A payment is retried with the same key, because the gateway would charge it twice otherwise.
        """
        for attempt in range(self.limit):
            try:
                return self.charge(payment)
            except PaymentError:
                if attempt + 1 == self.limit:
                    raise
                time.sleep(self.pause * 2**attempt)
'''
LOOP = """\
        for attempt in range(self.limit):
            try:
                return self.charge(payment)
            except PaymentError:
                if attempt + 1 == self.limit:
                    raise
                time.sleep(self.pause * 2**attempt)"""
TESTS = '''\
def test_payments_are_retried(gateway, payment):
    """Payments are retried when the gateway is down."""
    gateway.client.fail(2)
    assert gateway.charge_with_retries(payment) == "ch_1"
'''
CART = """\
/** Keeps the cart of a visitor. */
export class CartStore {
  constructor(storage) {
    this.storage = storage;
  }

  // Remove what nobody bought for a day.
  expireItems(now) {
    for (const item of this.items) {
      if (now - item.added > DAY) {
        this.remove(item);
      }
    }
  }
}

export const computeShipping = (cart, country) => {
  if (cart.total > FREE_FROM[country]) {
    return 0;
  }
  return RATES[country] * cart.weight;
};

app.post('/hooks', function receiveHook(request) {
  queue.push(request.body);
});
"""
SERVER = """\
package main

func (s *Server) verifySignature(body []byte, header string) error {
\tmac := hmac.New(sha256.New, s.secret)
\tmac.Write(body)
\tif !hmac.Equal(mac.Sum(nil), decode(header)) {
\t\treturn errBadSignature
\t}
\treturn nil
}
"""
PROJECT = {
    "README.md": README,
    "CHANGELOG.md": CHANGELOG,
    "shop/gateway.py": GATEWAY,
    "tests/test_gateway.py": TESTS,
    "web/cart.js": CART,
    "web/server.go": SERVER,
}
