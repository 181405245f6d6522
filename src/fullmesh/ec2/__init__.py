"""Handle the EC2 side: security groups, network ACLs, EFA."""
