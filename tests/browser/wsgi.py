"""The site under WSGI, as `python -m tests.browser.wsgi DESCRIPTOR`: no websocket anywhere."""

from __future__ import annotations

import os
import socket
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.browser.settings")

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

application = StaticFilesHandler(get_wsgi_application())


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def main() -> None:
    """Serve on a socket that is bound already."""
    listening = socket.socket(fileno=int(sys.argv[1]))
    server = Server(listening.getsockname(), WSGIRequestHandler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    host, server.server_port = listening.getsockname()[:2]
    server.server_name = host
    server.setup_environ()
    server.set_app(application)
    server.serve_forever()


if __name__ == "__main__":
    main()
