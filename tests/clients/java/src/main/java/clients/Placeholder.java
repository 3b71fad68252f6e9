package clients; class Placeholder {}
